# Every passage repeats the headings above it.
HEADING_CHARACTERS_MAX = 200
# A search reads the list of them, which holds the interpreter.
WORDS_MAX = 500_000
PDF_TOO_LARGE = "takes too much memory to read; split it"
