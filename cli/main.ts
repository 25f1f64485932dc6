import { run } from './program.ts'

// A reader may close the pipe at any line, as `head -1` does. That is not an error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  // Opened only by commands that read it: opening takes time, and other commands must not wait for its end.
  input: () => process.stdin,
  output: process.stdout,
  errors: process.stderr,
})
