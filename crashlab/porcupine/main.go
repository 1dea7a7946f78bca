// Holds the lab's judge against porcupine.
//
// Each line of the standard input is a question: a history of one key, the state in which a crash
// left it, and whether the judge allows that. Porcupine is asked the same, and must agree. With the
// argument -processes the histories are those of real processes, all of which must be allowed.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

// fewest is how many questions of each kind there must be: agreement on less says little.
const fewest = 100

// shown is how many disagreements are printed in full.
const shown = 20

// state of a key: a value, or absent.
type state struct {
	isPresent bool
	value     uint16
}

func (s *state) UnmarshalJSON(text []byte) error {
	var value *uint16
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	*s = state{}
	if value != nil {
		*s = state{isPresent: true, value: *value}
	}
	return nil
}

// call is what was called, and what had come of it when the machine crashed.
type call struct {
	Thread   int
	Action   string
	Value    state
	Expected state
	Call     int64
	// Return is nil if the call was under way.
	Return *int64
	Found  state
	Full   bool
}

type question struct {
	ID      string
	Initial state
	Calls   []call
	Final   state
	Allowed bool
}

// effect is what becomes of a key in state s.
func (c call) effect(s state) state {
	switch c.Action {
	case "insert":
		if !s.isPresent {
			return c.Value
		}
	case "update":
		if s.isPresent {
			return c.Value
		}
	case "upsert":
		return c.Value
	case "remove":
		return state{}
	case "exchange":
		if s == c.Expected {
			return c.Value
		}
	}
	return s
}

// steps are the states that the call may leave of state s; none if it cannot have met s.
func (c call) steps(s state) []interface{} {
	switch {
	case c.Return == nil:
		return []interface{}{s, c.effect(s)}
	case c.Full:
		return []interface{}{s}
	case c.Found == s:
		return []interface{}{c.effect(s)}
	}
	return nil
}

// operations is the history for porcupine. A call that was under way returns at the end of time, so
// that it comes before nothing. What the crash left is found by one more call. It begins when every
// other has begun and all that returned has returned: only calls under way are beside it, and they
// may take effect before it, or after it, which is never.
func (q question) operations() []porcupine.Operation {
	history := make([]porcupine.Operation, 0, len(q.Calls)+1)
	begin, reader := int64(0), 0
	for _, c := range q.Calls {
		end, known := int64(math.MaxInt64), c.Call
		if c.Return != nil {
			end, known = *c.Return, *c.Return
		}
		if known >= begin {
			begin = known + 1
		}
		if c.Thread >= reader {
			reader = c.Thread + 1
		}
		history = append(history, porcupine.Operation{ClientId: c.Thread, Input: c, Call: c.Call, Return: end})
	}
	end := begin + 1
	read := call{Action: "get", Call: begin, Return: &end, Found: q.Final}
	return append(history, porcupine.Operation{ClientId: reader, Input: read, Call: begin, Return: end})
}

// isAllowed is porcupine's verdict.
func (q question) isAllowed() bool {
	model := porcupine.NondeterministicModel{
		Init: func() []interface{} { return []interface{}{q.Initial} },
		Step: func(s, input, _ interface{}) []interface{} { return input.(call).steps(s.(state)) },
	}
	return porcupine.CheckOperations(model.ToModel(), q.operations())
}

// check says what makes a question meaningless.
func (q question) check() error {
	for _, c := range q.Calls {
		switch c.Action {
		case "get", "insert", "update", "upsert", "remove", "exchange":
		default:
			return fmt.Errorf("%s: no action is called %q", q.ID, c.Action)
		}
		if c.Return != nil && *c.Return <= c.Call {
			return fmt.Errorf("%s: a call returns at %d, but begins at %d", q.ID, *c.Return, c.Call)
		}
	}
	return nil
}

// has tells whether a call is such that.
func (q question) has(such func(call) bool) bool {
	for _, c := range q.Calls {
		if such(c) {
			return true
		}
	}
	return false
}

// tally counts questions by what they are able to show.
type tally struct {
	questions, allowed, refused, underWay, full, disagreements int
}

func compare(input io.Reader) (tally, error) {
	var counts tally
	lines := bufio.NewReader(input)
	for {
		line, end := lines.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return counts, end
		}
		if len(line) == 0 {
			return counts, nil
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			return counts, fmt.Errorf("line %d: %w", counts.questions+1, err)
		}
		if err := q.check(); err != nil {
			return counts, err
		}
		counts.questions++
		allowed := q.isAllowed()
		if allowed {
			counts.allowed++
		} else {
			counts.refused++
		}
		if q.has(func(c call) bool { return c.Return == nil }) {
			counts.underWay++
		}
		if q.has(func(c call) bool { return c.Full }) {
			counts.full++
		}
		if allowed != q.Allowed {
			counts.disagreements++
			if counts.disagreements <= shown {
				fmt.Printf("porcupine says %t, the judge %t: %s", allowed, q.Allowed, line)
			}
		}
	}
}

func main() {
	counts, err := compare(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d questions: %d allowed, %d refused; %d with calls under way, %d with calls that found no room; %d disagreements\n",
		counts.questions, counts.allowed, counts.refused, counts.underWay, counts.full, counts.disagreements)
	kinds := []int{counts.allowed, counts.refused, counts.underWay, counts.full}
	if len(os.Args) > 1 && os.Args[1] == "-processes" {
		// Real processes: each history must be allowed.
		kinds = []int{counts.allowed}
	}
	isThin := false
	for _, count := range kinds {
		isThin = isThin || count < fewest
	}
	if isThin {
		fmt.Printf("too few questions of a kind: there must be %d of each\n", fewest)
	}
	if isThin || counts.disagreements > 0 {
		os.Exit(1)
	}
}
