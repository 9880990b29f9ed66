package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
)

type junitSuite struct {
	XMLName   xml.Name    `xml:"testsuite"`
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"` // seconds
	Timestamp string      `xml:"timestamp,attr"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure,omitempty"`
	Skipped *junitMessage `xml:"skipped,omitempty"`
	Out     string        `xml:"system-out,omitempty"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: a test case for each scenario, whose class is the level. A broken one failed,
// one that is not testable was skipped, one that differs passed and says how.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{Name: "ichido verify " + printable(r.URL), Tests: len(r.Results), Failures: r.Count(Broken),
		Skipped: r.Count(NotTestable), Time: seconds(r.DurationMS), Timestamp: r.Started.Format("2006-01-02T15:04:05")}
	for _, result := range r.Results {
		c := junitCase{Class: "verify." + string(result.Level), Name: result.ID, Time: seconds(result.DurationMS)}
		got := printable(result.Got)
		switch result.Verdict {
		case Broken:
			c.Failure = &junitMessage{got, fmt.Sprintf("%s (%s)\nexpected: %s\ngot: %s\ntry: %s\n", result.Title, result.Source,
				result.Expected, got, printable(result.Curl))}
		case NotTestable:
			c.Skipped = &junitMessage{Message: got}
		case Differs:
			c.Out = "differs by choice: " + got
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(milliseconds int64) string { return fmt.Sprintf("%.3f", float64(milliseconds)/1000) }
