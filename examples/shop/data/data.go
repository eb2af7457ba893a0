// Package data is a small set of the shop's own: a few users, orders, products,
// flights and reservations, all made up, in the format of the large one.
package data

import (
	"embed"
	"io/fs"
)

//go:embed *.json
var files embed.FS

// Small returns the folder with the six tables.
func Small() fs.FS { return files }
