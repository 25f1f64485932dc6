import { run } from './program.ts'

// Whoever reads our output may stop at any line, as `head -1` does. That is no failure of ours.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

process.exitCode = await run(process.argv.slice(2), {
  env: process.env,
  // Opened by those commands that read it: opening it costs time, and the others must not wait for its end.
  input: () => process.stdin,
  output: process.stdout,
  errors: process.stderr,
})
