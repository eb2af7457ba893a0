// Package expression compiles the conditions that operators write into
// configuration, and runs them within bounds. The language is that of
// github.com/expr-lang/expr without what could take long: no loops, no
// variables, no ranges, and of its functions only those whose work is in
// proportion to what they are given. So the work of an expression is bounded by
// its length. Regular expressions are constants, compiled with the expression,
// and paid for from a budget (see [Work]).
package expression
