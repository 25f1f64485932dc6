import { acpClientFile, acpCommand, parseAcpEvents } from './acp.ts'
import { pythonBundle, pythonCommand, withNode } from './bundles/bundle.ts'
import lock from './bundles/fast-agent.lock.json' with { type: 'json' }
import { buildChatHarness } from './chat-program.ts'
import { HOME } from './harness.ts'

/** An agent of the Agent Client Protocol. Without its shell it has no tools. */
export const fastAgent = buildChatHarness({
  id: 'fast-agent',
  name: 'fast-agent',
  version: lock.version,
  bundle: withNode(pythonBundle('fast-agent', lock)),
  start: ({ model, baseUrl, token }, instruction) => ({
    command: acpCommand([
      ...pythonCommand('fast_agent.cli.commands.acp:main'),
      ...['--shell', '--model', `generic.${model}`, '--home', `${HOME}/.fast-agent`],
    ]),
    env: { GENERIC_API_KEY: token, GENERIC_BASE_URL: `${baseUrl}/v1` },
    files: [acpClientFile()],
    input: instruction,
  }),
  trajectoryEvents: parseAcpEvents,
})
