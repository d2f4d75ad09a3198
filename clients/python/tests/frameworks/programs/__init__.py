# Agents of each framework that do the same: their model proposes the payments that the prompt names, all at once, and then says what came
# of them. `go` runs such an agent for a person and a run, and returns its last words.
