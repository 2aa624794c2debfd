module generate

go 1.26
