package reflection

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	"mulligan/internal/policies"
	"mulligan/pkg/messages"
	"mulligan/pkg/recovery"
	"mulligan/pkg/recovery/rules"
)

// deciders gives the decider of each policy. There are few policies, and what
// a decider knows of schemas is worth keeping.
type deciders struct {
	cfg  Config
	book *policies.Book
	log  *slog.Logger

	mu      sync.Mutex
	known   map[string]*recovery.Decider // by policy and revision of the document, whose rules they ask
	missing map[string]bool              // reflectors that were named in vain, and said so
}

// mostDeciders bounds what is remembered; it is forgotten all at once.
const mostDeciders = 256

func newDeciders(cfg Config) (*deciders, error) {
	book, err := policies.NewBook(cfg.Policies, nil, cfg.Log)
	if err != nil {
		return nil, err
	}
	return &deciders{cfg: cfg, book: book, log: cfg.Log, known: make(map[string]*recovery.Decider), missing: make(map[string]bool)}, nil
}

// of is the decider for a call, as its policy wants it.
func (d *deciders) of(call messages.Call) (*recovery.Decider, error) {
	return d.with(d.book.For(call.Queue, call.Tool, call.Policy))
}

func (d *deciders) with(p recovery.Policy) (*recovery.Decider, error) {
	fields, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	added, revision := d.book.Rules()
	key := fmt.Sprint(revision, " ", string(fields))
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := d.known[key]; got != nil {
		return got, nil
	}
	s, err := p.Choose(d.cfg.Random)
	if err != nil {
		return nil, err
	}
	got, err := recovery.NewDecider(d.chain(p.Reflectors, added), s, p)
	if err != nil {
		return nil, err
	}
	if len(d.known) >= mostDeciders {
		clear(d.known)
	}
	d.known[key] = got
	return got, nil
}

// chain puts the named reflectors in a row, and before the shipped rules those
// that the document adds, nil for none. It wants the lock held.
func (d *deciders) chain(names []string, added *rules.Custom) recovery.Reflector {
	if d.cfg.Reflector != nil {
		return d.cfg.Reflector
	}
	var ch recovery.Chain
	for _, name := range names {
		if name == rules.Name && added != nil {
			ch = append(ch, added)
		}
		if r := d.cfg.Reflectors[name]; r != nil {
			ch = append(ch, r)
			continue
		}
		if !d.missing[name] {
			d.missing[name] = true
			d.log.Info("a reflector that the policies name is not set up here and is left out", "reflector", name)
		}
	}
	if len(ch) == 1 {
		return ch[0]
	}
	return ch
}
