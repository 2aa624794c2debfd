package main

import (
	"math/rand"
	"strings"
)

// Patterns made of these are mostly good ones, and some are not.
var atoms = []string{
	"a", "b", "A", "k", "K", "s", "S", "0", "9", "_", "-", ".", " ", ",", ":", "]", "}", "&", "~", "#",
	"é", "É", "ſ", "\u212a", "ß", "δ", "Σ", "ς", "世", "\n", "\v", "\t", "^", "$", "|", "ab", "www",
	`\.`, `\-`, `\_`, `\/`, `\"`, `\n`, `\v`, `\t`, `\a`, `\f`, `\r`, `\A`, `\z`, `\b`, `\B`, `\d`, `\D`,
	`\w`, `\W`, `\s`, `\S`, `\pL`, `\PL`, `\pN`, `\p{Lu}`, `\P{Lu}`, `\p{^Ll}`, `\p{Greek}`, `\p{Latin}`,
	`\p{greek}`, `\p{Letter}`, `\p{Any}`, `\p{ASCII}`, `\p{LC}`, `\pZ`, `\x41`, `\x{e9}`, `\x{017F}`, `\101`,
	`\0`, `\07`, `\Qa.b\E`, `\Q[`, `\Qx*\E`, `(?i)`, `(?s)`, `(?m)`, `(?U)`, `(?-i)`, `(?i-s)`, `(?ms)`,
	"()", "(|a)", "(?:)", "[a]", "[^a]", "{,2}", "{", "x{", "[[:word:]]", "[[:^space:]]",
}

// Parts that Go refuses, or that are easily read in another way.
var odd = []string{
	`\8`, `\1`, `\C`, `\E`, `\Z`, `\y`, `\u0041`, `\x`, `\x{}`, `\x{110000}`, `\xz`, `\p{Foo}`, `\p`, `\p{`, `\p{Old_Italic}`,
	`\pé`, `\é`, `\<`, `\ `, `(?x)`, `(?=a)`, `(?<=a)`, `(?P=n)`, `(?P<n>`, `(?<n>`, `(?<a-b>`, `(?P<>`, "(?", "(?i", "(?-)", "(?i-)",
	"[", "]", ")", "(", "*", "+", "?", "{2}", "{1001}", "{2,1}", "{01}", "{0}", "{0,0}", "{1,}", "*+", "[[:foo:]]",
	"[z-a]", `[a-\d]`, `[\d-z]`, "[[.a.]]", "[[=a=]]", `\`, "[[", "&&", "--", "~~", "[^", "(?#a)", "(?>a)", `\K`, `\h`, `\R`, `\G`, `\X`,
}

var members = []string{
	"a", "b", "c", "z", "A", "K", "S", "0", "9", "_", "-", ".", "[", "&", "&&", "~~", "--", "^", "$", "|", "(", ")", "*", " ", "é",
	"ſ", "\u212a", "\n", "a-c", "A-Z", "a-z", "0-9", "+--", "!-/", "à-ü", "Α-Ω", `\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `\pL`, `\PL`,
	`\p{Lu}`, `\p{^Greek}`, `\n`, `\]`, `\[`, `\-`, `\\`, `\x41`, `\x{40}-\x{5a}`, `\101`, "[:alpha:]", "[:^digit:]", "[:word:]",
	"[:space:]", "[:punct:]", "[:upper:]", "[:lower:]", "[:^upper:]", "[:", ":]", ":", "[a", `\x{d700}-\x{e001}`,
}

var repetitions = []string{
	"*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{1,}", "{0,1}", "{1,3}", "{2,3}?", "{0,}?", "{3,}", "{,2}",
}

func one(source *rand.Rand, of []string) string {
	return of[source.Intn(len(of))]
}

func class(source *rand.Rand) string {
	var out strings.Builder
	out.WriteString("[")
	if source.Intn(3) == 0 {
		out.WriteString("^")
	}
	if source.Intn(8) == 0 {
		out.WriteString("]")
	}
	for range 1 + source.Intn(4) {
		out.WriteString(one(source, members))
	}
	out.WriteString("]")
	return out.String()
}

func group(source *rand.Rand, depth int) string {
	opening := one(source, []string{"(", "(", "(", "(?:", "(?:", "(?i:", "(?P<n>", "(?<m1>", "(?s-i:", "(?U:", "(?mi:"})
	inner := alternation(source, depth-1)
	return opening + inner + ")"
}

func part(source *rand.Rand, depth int) string {
	switch kind := source.Intn(20); {
	case kind < 5 && depth > 0:
		return group(source, depth)
	case kind < 8:
		return class(source)
	case kind < 13:
		return one(source, atoms[:24])
	default:
		return one(source, atoms)
	}
}

func alternation(source *rand.Rand, depth int) string {
	var out strings.Builder
	for range 1 + source.Intn(4) {
		out.WriteString(part(source, depth))
		if source.Intn(3) == 0 {
			out.WriteString(one(source, repetitions))
		}
		if source.Intn(6) == 0 {
			out.WriteString("|")
		}
	}
	return out.String()
}

func randomPattern(source *rand.Rand) string {
	pattern := []rune(alternation(source, 3))
	at := source.Intn(len(pattern) + 1)
	switch source.Intn(10) {
	case 0:
		return string(pattern[:at]) + one(source, odd) + string(pattern[at:])
	case 1:
		return string(pattern[:at])
	case 2:
		return string(pattern[:at]) + one(source, atoms) + string(pattern[at:])
	}
	return string(pattern)
}

// Texts of characters that tell patterns apart, and of the pattern's own.
func randomTexts(source *rand.Rand, pattern string) []string {
	letters := []rune("aabbcABkKsSſ\u212aéÉßδΔΣσς世019__--. \n\v\t[]&~^xwz,")
	letters = append(letters, []rune(pattern)...)
	var texts []string
	for range 4 {
		var text []rune
		for range source.Intn(9) {
			text = append(text, letters[source.Intn(len(letters))])
		}
		texts = append(texts, string(text))
	}
	return append(texts, "aaabbb", "")
}
