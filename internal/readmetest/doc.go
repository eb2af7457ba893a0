// Package readmetest holds the pages of the repository to the repository: the
// commands of the README run in a fresh folder and print what it says, snippets
// stand in the files that they are said to be from, and the paths, functions,
// commands, flags, metrics and log messages that the pages name exist.
package readmetest
