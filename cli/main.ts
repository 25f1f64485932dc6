import { Command } from 'commander'
import { addServeCommands } from './serve.ts'

const program = new Command('assay').description(
  'Which model, coding agent and reasoning level works best on your own code, and what it costs.',
)
addServeCommands(program)
await program.parseAsync()
