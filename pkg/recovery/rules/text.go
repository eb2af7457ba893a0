package rules

import (
	"slices"
	"strconv"
)

// What texts of errors look like, by kind. They are searched in a text from
// which the input's own words were taken out.
var (
	rateLimit = says(`(?i)\btoo many (?:concurrent )?(?:requests|calls)\b` +
		`|\brate[ _-]?limit` +
		`|\bthrottl(?:ed|ing)|\brequests? too (?:quickly|fast|often|frequently)\b` +
		`|\bslow down\b|\bRESOURCE_EXHAUSTED\b`)

	noPermission = says(`(?i)\bunauthori[sz]ed\b|\bforbidden\b|\bpermission denied\b|\baccess denied\b|\bEACCES\b|\bEPERM\b` +
		`|\bnot (?:subscribed|authori[sz]ed|permitted)\b|\bfor your subscription\b|\bPERMISSION_DENIED\b|\bUNAUTHENTICATED\b` +
		`|\b(?:invalid|missing|expired|wrong|incorrect) (?:api[ _-]?key|(?:access |auth(?:entication)? |bearer )?token|credentials?)\b|\bauthentication (?:failed|required)\b|\blogin required\b`)

	redirectLoop = says(`(?i)\bexceeded \d+ redirects\b|\btoo many redirects\b|\bredirect loop\b|\bERR_TOO_MANY_REDIRECTS\b`)

	serverError = says(`(?i)\binternal server error\b|\bbad gateway\b|\bgateway time-?out\b|\bservice (?:is )?(?:currently |temporarily )?unavailable\b`)

	gone = says(`(?i)\bendpoint\b.{0,80}\b(?:does not exist|not found|removed|deprecated|retired)\b|\bno longer (?:supported|available|exists|maintained)\b` +
		`|\b(?:has been|was|is) (?:deprecated|discontinued|retired|sunset)\b|\bmethod not (?:allowed|implemented)\b|-32601\b|\bUNIMPLEMENTED\b`)

	// slow is not said of a parameter that is called time-out.
	slow = says(`(?i)\btimed[ -]?out\b|\bdeadline exceeded\b|\bDEADLINE_EXCEEDED\b|\bETIMEDOUT\b|\bESOCKETTIMEDOUT\b|\bERR_TIMED_OUT\b|\bdid not (?:respond|answer) in time\b` +
		`|\b(?:connection|connect|read|write|request|gateway|operation|socket|navigation|query|lock|execution|network|server|upstream|response)[ _-]?time-?out\b` +
		`|\btime-?out(?:error| error| exceeded| reached| expired| while| after| waiting| occurred| of \d|[.:!,;)]|$)`)

	network = says(`(?i)\bconnection (?:was )?(?:refused|reset|aborted|closed|lost|error|failed|timed out)\b|\b(?:could not|cannot|can\'t|unable to|failed to) connect\b|\bConnection(?:Reset|Refused|Aborted)?Error\b|\bConnectError\b` +
		`|\bECONN(?:REFUSED|RESET|ABORTED)\b|\bEPIPE\b|\bEAI_AGAIN\b|\bENOTFOUND\b|\bEHOSTUNREACH\b|\bENETUNREACH\b|\bnet::ERR_(?:CONNECTION|NETWORK|INTERNET|NAME|ADDRESS|SOCKET|EMPTY)` +
		`|\bbroken pipe\b|\bno route to host\b|\bnetwork (?:is )?(?:error|unreachable|down)\b|\bname resolution\b|\bname or service not known\b|\bno such host\b|\bgetaddrinfo\b|\bcould not resolve (?:host|proxy)\b` +
		`|\bfetch failed\b|TypeError: Failed to fetch\b|\bsocket hang up\b|\b(?:server|remote end|peer) (?:disconnected|closed (?:the )?connection)\b|\bRemoteDisconnected\b|\bRemoteProtocolError\b|\bunexpected EOF\b|\bTLS handshake\b|\bmax retries exceeded\b|\bupstream connect error\b`)

	busy = says(`(?i)\btemporar(?:y|ily)\b.{0,40}\b(?:unavailable|failure|error|problem|down|overloaded)\b|\b(?:server|system|api|backend|database|tool) (?:is )?(?:currently |temporarily )?(?:unavailable|overloaded|down)\b|\bUNAVAILABLE:` +
		`|\b(?:server|resource|device) (?:is )?(?:too )?busy\b|\boverloaded\b|\b(?:try|retry)(?: it)? again (?:later|shortly|soon|in )|\b(?:under|in|undergoing|scheduled) maintenance\b|\b(?:high|heavy) (?:load|demand|traffic)\b` +
		`|\bdatabase is locked\b|\bdeadlock (?:detected|found)\b|\block wait timeout\b|\bcould not (?:obtain|acquire) (?:a )?lock\b|\bcould not serialize access\b|\btoo many connections\b|\bEAGAIN\b|\bEBUSY\b|\bused by another process\b`)

	// unexplained must be all that the text says, and no reason follows it.
	unexplained = says(`(?i)^(?:error:? *)?(?:error executing tool [\w./-]+: *)?(?:failed|unable|could not|cannot) (?:to )?(?:retrieve|fetch|reach|query)\b[^:({\n]{0,120}$`)

	missingInput = says(`(?i)\bfield required\b|\bis a required property\b|\bmissing\b.{0,40}\b(?:parameter|argument|property|field|input|keyword)|\b(?:parameter|argument|property|field)s?\b.{0,60}\b(?:is|are) (?:required|missing)\b|"message": *"required"` +
		`|\bmust have required property\b|\b(?:cannot|must not|can\'t) be (?:empty|blank|null)\b|\brequired value\b|\breceived undefined\b`)

	environment = says(`(?i)\bexecutable doesn\'t exist\b|\bcommand not found\b|\bmodule(?:notfounderror| not found)\b|\bno module named\b|\bfailed to launch\b|\bnot installed\b|\bno space left\b|\bout of memory\b` +
		`|\bcannot find module\b|\bmissing (?:dependency|library|binary)\b|\bmay have exited\b|\bENOSPC\b|\bENOMEM\b|\bread-only file system\b|\bno such table\b|\bno such column\b`)

	stepBefore = says(`(?i)\bno (?:\w+ ){1,2}(?:is )?(?:currently )?(?:loaded|open|selected|active|initiali[sz]ed|running|established)\b|\bnot (?:logged in|connected|initiali[sz]ed|authenticated yet|started yet)\b|\bmust (?:first|be called before)\b|\bcall \S{1,60} (?:first|before)\b|\b(?:must|need to|have to|please) (?:\w+ ){1,6}first\b`)

	noSuchText = says(`(?i)\bdid not appear verbatim\b|\b(?:old_?str(?:ing)?|string to replace|search (?:text|string|block)|text to replace)\b.{0,60}\b(?:not found|no match|not unique)|\bmultiple occurrences of\b|\bno replacement (?:was )?(?:performed|made)\b|\bnot unique in\b`)

	notAvailable = says(`(?i)\bnot (?:found or )?available\b|\bunavailable\b|\bnot enough (?:seats|stock|capacity|items|rooms|tickets)\b|\bout of stock\b|\bsold out\b|\bfully booked\b|\bno available\b|\bno longer in stock\b`)

	notFound = says(`(?i)\bnot found\b|\bno such (?:file|user|order|item|record|object|key|page|entity)\b|\b(?:does not|doesn\'t|do not|don\'t) exist\b|\bENOENT\b|\bnon-?existent\b|\bNOT_FOUND\b` +
		`|\bunknown (?:user|order|item|id|product|account|customer)\b|\bno (?:matching|match|results?)\b|\b(?:could not|cannot|can\'t|couldn\'t|unable to|failed to) (?:find|locate)\b|\bno \w+ (?:was |were )?found\b|\bcannot access\b`)

	lengthsDiffer = says(`(?i)\bnumber of .{1,60} (?:should|must|does not|do not|don\'t|doesn\'t|needs? to|has to) (?:be )?(?:match|equal|the same)\b|\b(?:same|equal|different|unequal) (?:lengths?|number|size)\b|\blengths? (?:mismatch|do(?:es)? not match|must match|differ)|\bmust (?:all )?be of the same length\b`)

	forbiddenState = says(`(?i)\bcannot be (?:\w+ ){0,2}(?:cancell?ed|modified|returned|exchanged|changed|updated|used|deleted|edited|reopened|refunded|moved|removed)\b|\balready (?:been )?(?:cancell?ed|returned|processed|delivered|exists?|closed|done|paid|used|completed|shipped|refunded|in use|taken|registered)\b` +
		`|\b(?:is|are) not allowed\b|\bnot allowed to\b|\bdoes not match\b|\bFAILED_PRECONDITION\b|\bALREADY_EXISTS\b|\b(?:duplicate|unique) (?:key|constraint|entry)\b|\bforeign key\b`)

	funds = says(`(?i)\bnot enough (?:balance|funds|money|credit)|\binsufficient (?:\w+ ){0,3}(?:balance|funds|money|credit)|\bbalance (?:is )?(?:not enough|too low|insufficient)|\bcard (?:was )?declined\b|\b(?:exceeds|over) (?:the |your )?(?:available )?(?:balance|credit limit)\b`)

	unaccepted = says(`(?i)\binvalid (?:\w+ ){0,2}(?:value|choice|option|parameter|argument|format|input|request|url|date|id|type|syntax|params|query|name|address)s?\b|\bis (?:invalid|not (?:a |an )?(?:valid|allowed|supported|recogni[sz]ed))\b|\bare invalid\b|\bis not of type\b` +
		`|\b(?:should|must) (?:be|contain|have|match|not)\b|\bnot supported\b|\bunsupported\b|\bbad request\b|\bINVALID_ARGUMENT\b|-32602\b|\bvalidation (?:error|failed)\b|\b(?:greater|less|larger|smaller|longer|shorter) than\b|\bValueError\b|\bsyntax error|\bSyntaxError\b|\bIndentationError\b`)

	commandFailed = says(`(?i)\[exit_code=[1-9]|\bexit(?:ed with)?(?: (?:status|code))+:? [1-9]|\bnon-zero exit\b|\breturned exit code [1-9]`)

	// What the exec adapter says of a program that says nothing.
	silentExit = says(`\bexited with code [1-9]\d* and no output`)

	bug = says(`(?i)\bindex out of (?:range|bounds)\b|\bKeyError\b|\bTypeError\b|\bAttributeError\b|\bNullPointer|\bnil pointer\b|\bundefined is not\b|\bcannot read propert|\bTraceback\b|\bINTERNAL_ERROR\b|\bInternal error\b` +
		`|\bhas no attribute\b|\bindices must be integers\b|\bobject is not (?:subscriptable|iterable|callable)\b|\bis not a function\b|\bsegmentation fault\b|\bassertion failed\b|\bunhandled exception\b|\bpanic:`)
)

// status finds the code of an HTTP answer that a text names as one.
var status = says(`(?i)(?:\bstatus(?:[ _-]?code)?\b|\bhttp(?:/\d(?:\.\d)?)?(?: error| status)?\b|\bresponse code\b|\berror code\b|"code")['"]?[\s:=!(-]{0,4}([1-5]\d\d)\b|\b([45]\d\d) (?:bad gateway|service unavailable|gateway time-?out|internal server error|too many requests|not found|forbidden|unauthori[sz]ed|bad request|client error|server error)`)

// statusOf is the first that a text names; 0 for none.
func statusOf(text spotted) int {
	m := status.find(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1] + m[2])
	return n
}

// transientStatuses say that the server, not the request, was at fault.
func transientStatuses() []int {
	return []int{408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529}
}

// refused says that a server found fault with the request itself.
func refused(status int) bool {
	return status >= 400 && status < 500 && !slices.Contains(transientStatuses(), status)
}

func byText(p phrase, v *verdict) func(*sight) *verdict {
	return func(s *sight) *verdict {
		if p.in(s.text) {
			return v
		}
		return nil
	}
}

// unlessSilent is byText, but leaves open whose fault it is where the program
// said nothing: a tool that is ill ends like one that was called wrongly.
func unlessSilent(p phrase, v *verdict) func(*sight) *verdict {
	open := *v
	open.fault = ""
	silent, text := byText(silentExit, &open), byText(p, v)
	return func(s *sight) *verdict {
		if found := silent(s); found != nil {
			return found
		}
		return text(s)
	}
}

// byHint goes by a text that merely suggests; a status that says otherwise
// counts more.
func byHint(p phrase, v *verdict) func(*sight) *verdict {
	text := byText(p, v)
	return func(s *sight) *verdict {
		if refused(s.status) {
			return nil
		}
		return text(s)
	}
}

func byStatus(codes []int, v *verdict) func(*sight) *verdict {
	return func(s *sight) *verdict {
		if slices.Contains(codes, s.status) {
			return v
		}
		return nil
	}
}

// byStatusOrText goes by the text only where no status is named.
func byStatusOrText(codes []int, p phrase, v *verdict) func(*sight) *verdict {
	status, text := byStatus(codes, v), byText(p, v)
	return func(s *sight) *verdict {
		if s.status != 0 {
			return status(s)
		}
		return text(s)
	}
}

// byEither goes by the one or the other.
func byEither(codes []int, p phrase, v *verdict) func(*sight) *verdict {
	status, text := byStatus(codes, v), byText(p, v)
	return func(s *sight) *verdict {
		if got := status(s); got != nil {
			return got
		}
		return text(s)
	}
}
