module versitygw

go 1.26

require github.com/versity/versitygw v1.8.0 // indirect
