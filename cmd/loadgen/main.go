// Loadgen offers load to servers, as much as an experiment says and no matter how they fare, and reports how much useful work got
// done, and how late.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
