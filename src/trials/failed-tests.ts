import { open } from 'node:fs/promises'
import { stripVTControlCharacters } from 'node:util'
import { printable } from '../platform/terminal-text.ts'

/** How common test runners print a test that did not pass. The first group is the name of the test. */
const FAILED_TEST_LINES: readonly RegExp[] = [
  /^not passed: '(.+)'$/, // Assay's grader
  /^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$/, // pytest
  /^(?:FAIL|ERROR): (\S+ \(.+\))$/, // unittest
  /^not ok \d+ -? ?(.+)$/, // TAP: node, bats, prove
  /^[✖✕×] (.+?)(?: \(?[\d.]+ ?m?s\)?)?$/, // node, jest, vitest
  /^FAIL\s+(\S+ > .+)$/, // vitest
  /^--- FAIL: (\S+)/, // go
  /^test (\S+) \.\.\. FAILED$/, // cargo
  /^\[ERROR\] +(\w+\.\w+):\d+/, // maven
  /^\d+\) (\w[\w\\]*::\w+)/, // phpunit
  /^rspec (\S+:\d+)/, // rspec
  /^\d+ - (\S+) \(Failed\)$/, // ctest
]

/** Lines that node's reporters print in addition to the tests. */
const NOT_A_TEST = /^failing tests:$/

const NAMES_MAX = 50
const NAME_LENGTH_MAX = 200
const LINE_LENGTH_MAX = 2000

/** Returns the names of failed tests in the output of a verifier, in order and without repetition. The text is untrusted. */
export function listFailedTests(output: string): string[] {
  const names = new Set<string>()
  for (const line of stripVTControlCharacters(output).split('\n')) {
    const name = line.length > LINE_LENGTH_MAX ? undefined : findFailedTest(line.trim())
    if (name !== undefined) names.add(printable(name).slice(0, NAME_LENGTH_MAX))
    if (names.size >= NAMES_MAX) break
  }
  return [...names]
}

function findFailedTest(line: string): string | undefined {
  if (/^not ok .*# (?:skip|todo)\b/i.test(line)) return undefined
  for (const pattern of FAILED_TEST_LINES) {
    const name = pattern.exec(line)?.[1]?.trim()
    if (name && !NOT_A_TEST.test(name)) return name
  }
  return undefined
}

const OUTPUT_BYTES_MAX = 1024 * 1024

/** Reads the failed tests from the end of a log file. Returns none if the file does not exist. */
export async function readFailedTests(logFile: string): Promise<string[]> {
  const opened = await open(logFile, 'r').catch(() => undefined)
  if (!opened) return []
  await using file = opened
  const { size } = await file.stat()
  const position = Math.max(0, size - OUTPUT_BYTES_MAX)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(size, OUTPUT_BYTES_MAX)), { position })
  return listFailedTests(buffer.subarray(0, bytesRead).toString())
}
