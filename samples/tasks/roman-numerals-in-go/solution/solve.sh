#!/bin/bash
cat > /app/roman.go <<'GO'
// Package roman writes numbers as the Romans did.
package roman

import "fmt"

var values = []struct {
	value  int
	symbol string
}{
	{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"},
	{10, "X"}, {9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"},
}

// Format gives the Roman numeral of a number.
func Format(number int) (string, error) {
	if number < 1 || number > 3999 {
		return "", fmt.Errorf("no Roman numeral for %d", number)
	}
	numeral := ""
	for _, each := range values {
		for number >= each.value {
			numeral += each.symbol
			number -= each.value
		}
	}
	return numeral, nil
}
GO
