package pycalc

import "slices"

// node is a part of a parsed expression. eval returns a pyval number or an
// opaque value.
type node interface {
	eval() (any, error)
}

type (
	literal struct{ value any }
	unary   struct {
		op      string
		operand node
	}
	binary struct {
		op          string
		left, right node
	}
	call struct {
		callee, arg node // arg may be nil
	}
)

// opaque is a value of which only the name of its type matters, since every
// expression that ends in one fails: a complex number, a tuple, an ellipsis.
type opaque string

const (
	complexType  opaque = "complex"
	tupleType    opaque = "tuple"
	ellipsisType opaque = "ellipsis"
)

// parse reads an expression by Python's grammar, as far as the alphabet goes.
func parse(s string) (node, error) {
	tokens, err := lex(s)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 1 {
		return nil, failf("invalid syntax (<string>, line 0)")
	}
	p := parser{tokens: tokens}
	root, ok := p.sum()
	if ok && p.peek().text == tokEnd {
		return root, nil
	}
	return nil, p.fault()
}

type parser struct {
	tokens []token
	pos    int
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) take(text string) bool {
	if p.peek().text != text {
		return false
	}
	p.pos++
	return true
}

// fault is the error for a fault of grammar at pos, worded as Python words it.
// Python looks further than the fault for a better text, and where it meets the
// end of the expression with a parenthesis open, that is what it reports.
func (p *parser) fault() error {
	at := p.pos
	if p.endsOpen() {
		return syntaxError("'(' was never closed")
	}
	switch op := p.peek().text; {
	case p.peek().level > 0 && p.after(tokNumber, tokEllipsis, ")"):
		return p.missingComma(at)
	case (op == "*" || op == "**") && p.after("("):
		return p.starred(at, op)
	default:
		return syntaxError("invalid syntax")
	}
}

// missingComma words the fault of two expressions side by side in parentheses.
func (p *parser) missingComma(at int) error {
	if p.sum(); p.endsOpen() {
		return syntaxError("'(' was never closed")
	}
	p.pos = at
	if _, ok := p.factor(); ok && p.tokens[p.pos-1].level > 0 {
		return syntaxError("invalid syntax. Perhaps you forgot a comma?")
	}
	return syntaxError("invalid syntax")
}

// starred words the fault of a star right after a parenthesis.
func (p *parser) starred(at int, op string) error {
	p.pos = at + 1
	_, ok := p.sum()
	switch {
	case p.endsOpen():
		return syntaxError("'(' was never closed")
	case ok && p.take(")") && op == "*":
		return syntaxError("cannot use starred expression here")
	case ok && op == "**":
		return syntaxError("cannot use double starred expression here")
	default:
		return syntaxError("invalid syntax")
	}
}

// endsOpen says whether pos is at the end, with a parenthesis open.
func (p *parser) endsOpen() bool {
	t := p.peek()
	return t.text == tokEnd && t.level > 0
}

// after says whether the token before pos is one of texts.
func (p *parser) after(texts ...string) bool {
	return p.pos > 0 && slices.Contains(texts, p.tokens[p.pos-1].text)
}

func (p *parser) sum() (node, bool) {
	return p.chain(p.term, "+", "-")
}

func (p *parser) term() (node, bool) {
	return p.chain(p.factor, "*", "/", "//")
}

// chain reads operands joined by operators of equal rank, left to right.
func (p *parser) chain(operand func() (node, bool), ops ...string) (node, bool) {
	left, ok := operand()
	for ok {
		op := p.peek().text
		if !slices.Contains(ops, op) {
			return left, true
		}
		p.pos++
		var right node
		right, ok = operand()
		left = binary{op, left, right}
	}
	return nil, false
}

func (p *parser) factor() (node, bool) {
	for _, op := range []string{"+", "-"} {
		if p.take(op) {
			operand, ok := p.factor()
			return unary{op, operand}, ok
		}
	}
	return p.power()
}

func (p *parser) power() (node, bool) {
	base, ok := p.primary()
	if !ok || !p.take("**") {
		return base, ok
	}
	exponent, ok := p.factor()
	return binary{"**", base, exponent}, ok
}

func (p *parser) primary() (node, bool) {
	n, ok := p.atom()
	for ok && p.take("(") {
		if p.take(")") {
			n = call{callee: n}
			continue
		}
		var arg node
		if arg, ok = p.sum(); ok {
			ok = p.take(")")
		}
		n = call{callee: n, arg: arg}
	}
	return n, ok
}

func (p *parser) atom() (node, bool) {
	switch t := p.peek(); t.text {
	case tokNumber:
		p.pos++
		return literal{t.value}, true
	case tokEllipsis:
		p.pos++
		return literal{ellipsisType}, true
	case "(":
		p.pos++
		if p.take(")") {
			return literal{tupleType}, true
		}
		inner, ok := p.sum()
		return inner, ok && p.take(")")
	default:
		return nil, false
	}
}
