// Package calibrate measures what the machine at hand can do, so that a model of it can be written down: how many bytes its memory moves with
// one stream and with more, how long a load takes meanwhile, what a turn of computing, a lock's hand-over and a message to a neighbour cost, how
// precisely it sends, and what requests of the reference servers cost.
//
// What is measured is written as a machine file or a cost table in the form that profiles reads, with its provenance and its spread. A machine
// that was disturbed meanwhile, or that has too few cores to find the limit of its memory, is said to be so.
package calibrate
