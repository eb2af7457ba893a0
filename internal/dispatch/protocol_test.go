package dispatch

import "testing"

// The rows of protocol section 7 that the machine decides, one script each.

func TestP7_01_RepeatedTriggerRepeatsItsEffects(t *testing.T)     { script(t, "p7_01") }
func TestP7_02_LoserStartsAgainAndNeverAcks(t *testing.T)         { script(t, "p7_02") }
func TestP7_03_ScheduleNamesDispatchAndWait(t *testing.T)         { script(t, "p7_03") }
func TestP7_04_FullResultsKeepTheTrigger(t *testing.T)            { script(t, "p7_04") }
func TestP7_05_StaleReadIsReadAgain(t *testing.T)                 { script(t, "p7_05") }
func TestP7_06_FullQueueBecomesAWait(t *testing.T)                { script(t, "p7_06") }
func TestP7_07_ResultBeforeTheMessageGoes(t *testing.T)           { script(t, "p7_07") }
func TestP7_08_FreeWaitIsANewDispatch(t *testing.T)               { script(t, "p7_08") }
func TestP7_10_ResultOutranksTheRecord(t *testing.T)              { script(t, "p7_10") }
func TestP7_12_RecordBeforeDueDispatch(t *testing.T)              { script(t, "p7_12") }
func TestP7_13_WaitThenRead(t *testing.T)                         { script(t, "p7_13") }
func TestP7_17_CancelClaimsTheStart(t *testing.T)                 { script(t, "p7_17") }
func TestP7_18_AmbiguityIsSticky(t *testing.T)                    { script(t, "p7_18") }
func TestP7_19_CorrectionNeedsALoneDefiniteFailure(t *testing.T)  { script(t, "p7_19") }
func TestP7_17_AFailureThatWaitsIsEnded(t *testing.T)             { script(t, "p7_17_failed") }
func TestP7_19_SecondExecutionIsNotCorrected(t *testing.T)        { script(t, "p7_19_second") }
func TestP7_19_EarlierAmbiguityForbidsACorrection(t *testing.T)   { script(t, "p7_19_earlier") }
func TestP7_19_IdenticalRetryKeepsTheKey(t *testing.T)            { script(t, "p7_19_identical") }
func TestP7_20_CoordinatorOverrulesRetryOfAmbiguous(t *testing.T) { script(t, "p7_20") }
func TestP7_21_AnswerByIsAnAnswer(t *testing.T)                   { script(t, "p7_21") }
func TestP7_22_AnswerDoesNotLiftTheCeiling(t *testing.T)          { script(t, "p7_22") }
func TestP7_23_WinnerRulesTheRun(t *testing.T)                    { script(t, "p7_23") }
func TestP7_24_SettledClosesTheRecord(t *testing.T)               { script(t, "p7_24") }
func TestP7_26_RunIsReadAgainAfterTheWrite(t *testing.T)          { script(t, "p7_26") }
func TestP7_27_ReplayedTriggerIsNotApplied(t *testing.T)          { script(t, "p7_27") }
