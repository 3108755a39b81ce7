// Package archtest holds the rules that the source tree itself has to keep, as Go tests: which package may import which, which single
// package may import a third-party module, which calls are forbidden where, and a few limits of size and tidiness.
//
// The rules are the tables in rules_test.go; each carries its reason, and a violation prints it. To add a package, give it a row there:
// a package without one fails, so that its place in the order of packages is a decision and not an accident.
//
// What is read is source text, whatever its build tags, so a rule holds for the files that are not built on this computer too. Only the
// transitive ban on net asks the go command. That no output depends on the order of a map is not checked here: it needs types, and
// the golden files and replay tests of the packages concerned catch it.
package archtest
