package readmetest

import (
	"regexp"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Line int    // of its fence
	Lang string // as the fence says
	// Mark is the comment on the line before the fence, without its brackets:
	// "run", "from FILE", or empty.
	Mark string
	Text string
}

var mark = regexp.MustCompile(`^<!-- (.*) -->$`)

// Blocks are the fenced blocks of a page, in their order.
func Blocks(page string) []Block {
	var out []Block
	var open *Block
	before := ""
	for i, line := range strings.Split(page, "\n") {
		switch {
		case open != nil && line == "```":
			out = append(out, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		case strings.HasPrefix(line, "```"):
			open = &Block{Line: i + 1, Lang: strings.TrimPrefix(line, "```")}
			if m := mark.FindStringSubmatch(before); m != nil {
				open.Mark = m[1]
			}
		}
		before = line
	}
	return out
}

// Prose is a page without its fenced blocks, as many lines as it has.
func Prose(page string) string {
	fenced := false
	lines := strings.Split(page, "\n")
	for i, line := range lines {
		fence := strings.HasPrefix(line, "```")
		if fenced || fence {
			lines[i] = ""
		}
		if fence {
			fenced = !fenced
		}
	}
	return strings.Join(lines, "\n")
}

var span = regexp.MustCompile("`([^`\n]+)`")

// Spans are the code spans of a page outside of its blocks.
func Spans(page string) []string {
	var out []string
	for _, m := range span.FindAllStringSubmatch(Prose(page), -1) {
		out = append(out, m[1])
	}
	return out
}

// Link is a link of a page to somewhere in the repository.
type Link struct{ Text, Path, Anchor string }

var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]*)\)`)

// Links are the links of a page that lead to no other host.
func Links(page string) []Link {
	var out []Link
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(Prose(page), "x"), -1) {
		if strings.Contains(m[2], "://") {
			continue
		}
		path, anchor, _ := strings.Cut(m[2], "#")
		out = append(out, Link{Text: m[1], Path: path, Anchor: anchor})
	}
	return out
}

var (
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	unslug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Anchors are what the headings of a page can be linked by.
func Anchors(page string) map[string]bool {
	out := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(Prose(page), -1) {
		out[strings.ReplaceAll(unslug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

// any stands in an expected output for whatever a run has there.
const anything = "…"

var volatile = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Missing is the first line of want that got does not have, after those before
// it, empty when it has all. Ids of calls match any other.
func Missing(want, got string) string {
	lines := strings.Split(got, "\n")
	for w := range strings.SplitSeq(strings.TrimSpace(want), "\n") {
		if strings.TrimSpace(w) == "" {
			continue
		}
		re := pattern(w)
		for len(lines) > 0 && !re.MatchString(lines[0]) {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			return w
		}
		lines = lines[1:]
	}
	return ""
}

func pattern(line string) *regexp.Regexp {
	parts := strings.Split(volatile.ReplaceAllString(strings.TrimSpace(line), anything), anything)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(parts[i]))
	}
	return regexp.MustCompile(`^\s*` + strings.Join(parts, ".*") + `\s*$`)
}
