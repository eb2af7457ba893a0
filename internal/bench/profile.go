package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profile is the profiles of one repetition in one process: of its processor
// time, and of what was allocated before it and after it.
type profile struct {
	path string // without the endings
	cpu  *os.File
}

// beginProfile writes files whose names begin with path.
func beginProfile(path string) (*profile, error) {
	if err := writeAllocs(path + ".allocs-before.pprof"); err != nil {
		return nil, err
	}
	cpu, err := os.Create(path + ".cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return &profile{path, cpu}, nil
}

func (p *profile) end() error {
	pprof.StopCPUProfile()
	return errors.Join(p.cpu.Close(), writeAllocs(p.path+".allocs.pprof"))
}

func writeAllocs(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

// profiled runs do with a profile of this process and of each broker's.
func (e *env) profiled(do func() error) (err error) {
	if err := os.MkdirAll(e.o.Profile, 0o750); err != nil {
		return err
	}
	dir, err := filepath.Abs(e.o.Profile)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d", e.scenario, e.profiles))
	e.profiles++
	for i, s := range e.rig.servers {
		at := path + ".server"
		if i > 0 {
			at += fmt.Sprint("-", i)
		}
		if err := s.profile(at); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.profile("")) }()
	}
	p, err := beginProfile(path + ".client")
	if err != nil {
		return err
	}
	return errors.Join(do(), p.end())
}
