import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  bundlesFolder,
  type LevelCase,
  openScriptedGateway,
  type ScriptedGateway,
} from '../../test/support/harnesses/scripted-gateway.ts'
import { hasPart, isLongRun } from '../../test/support/parts.ts'
import { IMAGE, openTrialRunner, taskToml, writeTask } from '../../test/support/trials/trial-runner.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'
import type { Harness } from './harness.ts'

const WORD = 'xylophone'

/** An MCP server with one tool, which returns a word that occurs nowhere else. */
const SERVER = `$| = 1;
my %answers = (
  'tools/list' => '{"tools":[{"name":"secret_word","description":"Tells the word.","inputSchema":{"type":"object","properties":{}}}]}',
  'tools/call' => '{"content":[{"type":"text","text":"' . join('', reverse split //, '${[...WORD].reverse().join('')}') . '"}]}',
);
while (my $line = <STDIN>) {
  my ($id) = $line =~ /"id":\\s*("[^"]*"|\\d+)/ or next;
  my ($method) = $line =~ /"method":\\s*"([^"]+)"/;
  my ($version) = $line =~ /"protocolVersion":\\s*"([^"]+)"/;
  my $hello = '{"protocolVersion":"' . ($version // '') . '","capabilities":{"tools":{}},"serverInfo":{"name":"words","version":"1"}}';
  my $result = $method eq 'initialize' ? $hello : $answers{$method} // '{}';
  print qq({"jsonrpc":"2.0","id":$id,"result":$result}\\n);
}
`.replaceAll('\\\\', '\\')

/** A call of Claude Code's own search tool, which loads MCP tools on demand. */
const SEARCH_TOOLS = { use: { tool: 'ToolSearch', input: { query: 'select:mcp__words__secret_word', max_results: 5 } } }

const CASES: [string, Harness, LevelCase, object[]][] = [
  ['claude-code', claudeCode, toLevelCase('anthropic-messages', 'claude-sonnet-5'), [SEARCH_TOOLS]],
  ['codex', codex, toLevelCase('openai-responses', 'gpt-5.5'), []],
  ['gemini-cli', geminiCli, toLevelCase('gemini', 'gemini-3.1-pro-preview'), []],
]

function toLevelCase(protocol: LevelCase['protocol'], model: string): LevelCase {
  return { protocol, model, level: 'high', wireLevel: { effort: 'high' } }
}

// Real programs, each of which starts a real MCP server.
describe.skipIf(!isLongRun() || !hasPart('bwrap') || !hasPart('harnesses'))('MCP servers of a task', () => {
  let fixture: Awaited<ReturnType<typeof openTrialRunner>>
  let models: ScriptedGateway
  beforeAll(async () => {
    fixture = await openTrialRunner('bwrap')
    models = await openScriptedGateway()
  }, 600_000)
  afterAll(async () => {
    await fixture?.[Symbol.asyncDispose]()
    await models?.[Symbol.asyncDispose]()
  })

  test.each(CASES)(
    "%s calls a tool of the task's MCP server and uses the result",
    async (id, harness, levelCase, first) => {
      const task = writeTask(join(fixture.folder, id), {
        'task.toml': taskToml(
          {
            agentSec: 120,
            end: '[[environment.mcp_servers]]\nname = "words"\ntransport = "stdio"\ncommand = "perl"\nargs = ["/opt/words.pl"]',
          },
          null,
        ),
        'environment/Dockerfile': `FROM ${IMAGE}\nCOPY words.pl /opt/words.pl\n`,
        'environment/words.pl': SERVER,
        'instruction.md': 'Write the secret word to /app/hello.txt.\n',
        'tests/test.sh': `#!/bin/sh\ngrep -q ${WORD} /app/hello.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n`,
      })
      const script = {
        match: 'hello.txt',
        turns: [
          ...first,
          { use: { tool: 'secret_word' } },
          { run: "printf %s '{result}' > /app/hello.txt" },
          { say: 'It is there.' },
        ],
      }
      const { place, totals } = await models.open(harness, levelCase, { tasks: [script] })
      const bundles = { folder: await bundlesFolder() }
      const record = await fixture.run(task, harness, 'workspace', { isProven: true, model: place, bundles })
      expect(record, fixture.output('agent-1.log').slice(-3000)).toMatchObject({ state: 'passed', class: 'verified' })
      expect(models.provider.calls()[0]?.tools).toContainEqual(expect.stringMatching(/secret_word$|^tool_?search$/i))
      expect(await totals()).toMatchObject({ levelMismatches: 0, refusals: {}, costSource: 'metered' })
    },
  )
})
