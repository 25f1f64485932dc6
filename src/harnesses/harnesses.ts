import { aider } from './aider.ts'
import { claudeCode } from './claude-code.ts'
import { cline } from './cline.ts'
import { codePuppy } from './code-puppy.ts'
import { codex } from './codex.ts'
import { continueCli } from './continue.ts'
import { copilot } from './copilot.ts'
import { fastAgent } from './fast-agent.ts'
import { geminiCli } from './gemini-cli.ts'
import { gptme } from './gptme.ts'
import { grokCli } from './grok-cli.ts'
import type { Harness } from './harness.ts'
import { hermesAgent } from './hermes-agent.ts'
import { kilo } from './kilo.ts'
import { kimiCode } from './kimi-code.ts'
import { mini } from './mini.ts'
import { miniSweAgent } from './mini-swe-agent.ts'
import { mistralVibe } from './mistral-vibe.ts'
import { opencode } from './opencode.ts'
import { pi } from './pi.ts'
import { qwenCode } from './qwen-code.ts'
import { reasonix } from './reasonix.ts'
import { nop, oracle } from './reference.ts'

export const harnesses: readonly Harness[] = [
  oracle,
  nop,
  claudeCode,
  codex,
  geminiCli,
  opencode,
  pi,
  copilot,
  qwenCode,
  kimiCode,
  cline,
  continueCli,
  grokCli,
  reasonix,
  kilo,
  miniSweAgent,
  gptme,
  mistralVibe,
  codePuppy,
  hermesAgent,
  fastAgent,
  aider,
  mini,
]

export const findHarness = (id: string): Harness | undefined => harnesses.find((harness) => harness.id === id)
