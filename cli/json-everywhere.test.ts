import { PassThrough } from 'node:stream'
import { Command } from 'commander'
import { expect, test } from 'vitest'
import { assay } from '../test/support/assay-command.ts'
import { addAllCommands } from './all-commands.ts'
import { STANDALONE_COMMANDS } from './program.ts'
import type { Shell } from './shell.ts'

/** Commands without data to print, and why. */
const WITHOUT_DATA: Record<string, string> = {
  api: 'runs until it is stopped',
  completion: 'prints a script for a shell',
  demo: 'shows commands and their output',
  gateway: 'runs until it is stopped',
  init: 'writes files',
  'keys generate': 'prints one key',
  mcp: 'speaks JSON-RPC',
  migrate: 'changes the database',
  serve: 'runs until it is stopped',
  setup: 'installs programs',
  work: 'runs until it is stopped',
}

function listLeaves(command: Command, path: string[] = []): string[] {
  return command.commands.flatMap((child) => {
    const names = [...path, child.name()]
    return child.commands.length > 0 ? listLeaves(child, names) : [names.join(' ')]
  })
}

const openShell = (): Shell => {
  const output = new PassThrough()
  return { env: {}, input: () => process.stdin, output, errors: output } as unknown as Shell
}

test('a command that is loaded without the others has all of its subcommands', async () => {
  const program = new Command('assay')
  addAllCommands(program, openShell())
  const findLeaves = (from: Command, name: string) => listLeaves(from).filter((leaf) => leaf.split(' ')[0] === name)
  for (const [name, load] of Object.entries(STANDALONE_COMMANDS)) {
    const alone = new Command('assay')
    const addCommands = await load()
    addCommands(alone, openShell())
    expect(findLeaves(alone, name), name).toEqual(findLeaves(program, name))
    expect(findLeaves(alone, name), name).not.toEqual([])
  }
})

test('every command that prints data accepts --json, and says so in its help', async () => {
  const program = new Command('assay')
  addAllCommands(program, openShell())
  const leaves = listLeaves(program)
  expect(leaves.length).toBeGreaterThan(60)
  const silent: string[] = []
  for (const leaf of leaves) {
    const { code, out } = await assay([...leaf.split(' '), '--json', '--help'])
    expect(code, leaf).toBe(0)
    if (!out.includes('--json')) silent.push(leaf)
  }
  expect(silent.toSorted()).toEqual(Object.keys(WITHOUT_DATA).toSorted())
})
