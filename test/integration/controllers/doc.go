// Package controllers tests the controllers of the control plane in the real
// server: one server for all tests, one logical cluster or more for each.
package controllers
