// Refserver answers requests, under one of the overload controllers: the server side of an experiment, or a stand-in for memcached.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }
