package ichido

// What tests in package ichido_test may see.
const (
	MaxRuns     = maxRuns
	LooksAtOnce = looksAtOnce
	LongestLook = longestLook
)

// Flights returns how many keys requests are busy with.
func (m *Manager) Flights() int {
	m.flights.mu.Lock()
	defer m.flights.mu.Unlock()
	return len(m.flights.m)
}

// Settings returns the configuration with its defaults filled in.
func (m *Manager) Settings() Config { return m.config }
