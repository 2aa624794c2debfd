// Writes patterns, texts, and what Go's package regexp makes of them:
//
//	go run . > ../golden.json
//	go run . -random 60000 -seed 7 > /tmp/cases.json
//
// The first makes the table that the tests hold the crate against; the second a larger one of
// random patterns only, which they read instead if NODENS_GOREGEX_CASES names it.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"math/rand"
	"os"
	"regexp"
)

type match struct {
	Text string `json:"text"`
	// Start and end of each group in octets, -1 for one that took no part; nil without a match.
	At []int `json:"at"`
}

type outcome struct {
	Pattern string   `json:"pattern"`
	Error   string   `json:"error,omitempty"`
	Names   []string `json:"names,omitempty"`
	Matches []match  `json:"matches,omitempty"`
}

func look(pattern string, texts []string) outcome {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return outcome{Pattern: pattern, Error: err.Error()}
	}
	found := outcome{Pattern: pattern, Names: compiled.SubexpNames()}
	for _, text := range texts {
		found.Matches = append(found.Matches, match{text, compiled.FindStringSubmatchIndex(text)})
	}
	return found
}

func main() {
	count := flag.Int("random", 0, "so many random patterns and nothing else")
	seed := flag.Int64("seed", 1, "of the random patterns")
	flag.Parse()
	source := rand.New(rand.NewSource(*seed))
	var cases []outcome
	if *count == 0 {
		*count = 500
		for _, pattern := range picked {
			cases = append(cases, look(pattern, texts))
		}
	}
	for range *count {
		pattern := randomPattern(source)
		cases = append(cases, look(pattern, randomTexts(source, pattern)))
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for index, one := range cases {
		start := ",\n"
		if index == 0 {
			start = "[\n"
		}
		line, err := json.Marshal(one)
		if err != nil {
			panic(err)
		}
		out.WriteString(start)
		out.Write(line)
	}
	out.WriteString("\n]\n")
}
