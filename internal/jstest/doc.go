// Package jstest runs the tests of js/ in Node, and its client in a real Chromium against a server that loses answers. It
// has nothing but tests, and is a module of its own for the driver of the browser.
package jstest
