// Package catalogue reads what a pool can call: its tools with the workers that
// offer them, what policies say of them, and how their breakers stand. It is the
// one listing behind `mulligan tools` and the gateway.
package catalogue
