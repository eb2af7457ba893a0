package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cpuTime is what this process and a server have used of the processors. The
// children of the server count, those that have ended too: PostgreSQL has one
// for each connection.
func cpuTime(server int) time.Duration {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	var ticks int
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		ticks += ticksOf(string(b), pid, server)
	}
	const tick = 10 * time.Millisecond // on every Linux of ours
	return time.Duration(ticks) * tick
}

// ticksOf is what counts of a line of /proc/PID/stat, see proc(5).
func ticksOf(stat string, pid, server int) int {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // behind the name, which may hold anything
	if len(f) < 15 {
		return 0
	}
	field := func(i int) int { n, _ := strconv.Atoi(f[i-3]); return n } // counted as there
	const parent, user, system, childrenUser, childrenSystem = 4, 14, 15, 16, 17
	own := field(user) + field(system)
	switch {
	case pid == server:
		return own + field(childrenUser) + field(childrenSystem)
	case pid == os.Getpid(), field(parent) == server:
		return own
	default:
		return 0
	}
}
