package calls

// plan says which entries may be submitted next. It is pure; one goroutine at
// a time may use it.
type plan struct {
	file     *File
	sequence bool // a call waits until the one before it in its run has ended
	state    []state
	cursor   int     // next entry to look at
	ready    []int32 // fresh ones behind the cursor whose predecessor has ended since
}

// state is where an entry stands. It only grows.
type state byte

const (
	fresh state = iota
	taken       // by a sender, or submitted
	ended       // its line is in the journal
)

func newPlan(f *File, sequence bool) *plan {
	return &plan{file: f, sequence: sequence, state: make([]state, f.Calls)}
}

// next takes an entry that may be submitted now; false for none.
func (p *plan) next() (int32, bool) {
	if len(p.ready) > 0 {
		i := p.ready[0]
		p.ready = p.ready[1:]
		p.state[i] = taken
		return i, true
	}
	for p.cursor < len(p.state) {
		i := int32(p.cursor)
		p.cursor++
		if p.state[i] == fresh && !p.blocked(i) {
			p.state[i] = taken
			return i, true
		}
	}
	return 0, false
}

// spent says that next gives nothing before another call has ended.
func (p *plan) spent() bool { return len(p.ready) == 0 && p.cursor == len(p.state) }

func (p *plan) blocked(i int32) bool {
	if !p.sequence {
		return false
	}
	before := p.file.before[i]
	return before >= 0 && p.state[before] != ended
}

// end notes that an entry has its line, which lets the next call of its run go.
func (p *plan) end(i int32) {
	p.state[i] = ended
	if !p.sequence {
		return
	}
	if n := p.file.after[i]; n >= 0 && int(n) < p.cursor && p.state[n] == fresh {
		p.ready = append(p.ready, n)
	}
}
