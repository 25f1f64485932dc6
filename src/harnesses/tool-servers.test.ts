import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasPart, isLongRun } from '../../test/support/parts.ts'
import { IMAGE, openWorkbench, taskToml, writeTask } from '../trials/testing/workbench.ts'
import { claudeCode } from './claude-code.ts'
import { codex } from './codex.ts'
import { geminiCli } from './gemini-cli.ts'
import type { Harness } from './harness.ts'
import { bundlesFolder, type ModelBench, openModelBench, type Saying } from './testing/model-bench.ts'

const WORD = 'xylophone'

/** A server of one tool, which tells a word that is nowhere else. */
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

/** Where the program keeps tools back until they are looked for, with a tool of its own. */
const LOOKING = { use: { tool: 'ToolSearch', input: { query: 'select:mcp__words__secret_word', max_results: 5 } } }

const CASES: [string, Harness, Saying, object[]][] = [
  ['claude-code', claudeCode, saying('anthropic-messages', 'claude-sonnet-5'), [LOOKING]],
  ['codex', codex, saying('openai-responses', 'gpt-5.5'), []],
  ['gemini-cli', geminiCli, saying('gemini', 'gemini-3.1-pro-preview'), []],
]

function saying(protocol: Saying['protocol'], model: string): Saying {
  return { protocol, model, level: 'high', wireLevel: { effort: 'high' } }
}

// Real programs, each with a real server of tools that it starts by itself.
describe.skipIf(!isLongRun() || !hasPart('bwrap') || !hasPart('harnesses'))('servers of tools', () => {
  let bench: Awaited<ReturnType<typeof openWorkbench>>
  let models: ModelBench
  beforeAll(async () => {
    bench = await openWorkbench('bwrap')
    models = await openModelBench()
  }, 600_000)
  afterAll(async () => {
    await bench?.[Symbol.asyncDispose]()
    await models?.[Symbol.asyncDispose]()
  })

  test.each(CASES)('%s has what a server of the task tells, and works with it', async (id, harness, said, first) => {
    const task = writeTask(join(bench.folder, id), {
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
    const { place, totals } = await models.open(harness, said, { tasks: [script] })
    const bundles = { folder: await bundlesFolder() }
    const record = await bench.run(task, harness, 'workspace', { isProven: true, model: place, bundles })
    expect(record, bench.output('agent-1.log').slice(-3000)).toMatchObject({ state: 'passed', class: 'verified' })
    expect(models.provider.calls()[0]?.tools).toContainEqual(expect.stringMatching(/secret_word$|^tool_?search$/i))
    expect(await totals()).toMatchObject({ levelMismatches: 0, refusals: {}, costSource: 'metered' })
  })
})
