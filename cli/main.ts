import { run } from './program.ts'

// A reader may close the pipe at any line, as `head -1` does. That is not an error.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  // Only commands that read standard input open it: opening takes time, and an open input keeps the process alive.
  input: () => process.stdin,
  output: process.stdout,
  errors: process.stderr,
})
