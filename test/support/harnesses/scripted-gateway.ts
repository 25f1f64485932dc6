import { mkdir, symlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { ScriptInput } from '../../../samples/provider/script.ts'
import { closeGrant, openGrant } from '../../../src/gateway/grants.ts'
import { openSandboxPort, SANDBOX_GATEWAY_URL } from '../../../src/gateway/sandbox-port.ts'
import { uploadedBundle } from '../../../src/harnesses/bundles/bundle.ts'
import { install } from '../../../src/harnesses/bundles/install.ts'
import type { Harness } from '../../../src/harnesses/harness.ts'
import type { Level, Protocol, WireLevel } from '../../../src/harnesses/model-access.ts'
import { newId } from '../../../src/platform/ids.ts'
import type { TrialModel } from '../../../src/trials/trial-request.ts'
import { cacheFolder } from '../base-image.ts'
import { startScriptedGateway } from '../gateway/scripted-gateway.ts'

/** The provider key. Tests check that it leaks nowhere. */
export const KEY = 'sk-canary-7f3a9c51d0e84b26'

/** A reasoning level that a harness must request exactly, for one model and protocol. */
export type LevelCase = { protocol: Protocol; model: string; level: Level; wireLevel: WireLevel }

const PRICES = { input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6 }
const RETRY = { triesMax: 4, totalMs: 20_000, firstMs: 10, pauseMaxMs: 5_000, quietMs: 100 }
const SIZES = { contextTokens: 200_000, outputTokens: 32_000 }

/** Starts a real gateway in front of a scripted provider. */
export async function openScriptedGateway() {
  const scripted = await startScriptedGateway(KEY, { retry: RETRY })
  const { provider, ledger, gatewayUrl } = scripted

  /** Opens a grant for one trial, with an optional budget. */
  const open = async (
    harness: Harness,
    levelCase: LevelCase,
    script: ScriptInput,
    budgetMicros: number | null = null,
  ) => {
    provider.forget()
    provider.setScript({ keys: [KEY], ...script })
    const { protocol, model, wireLevel } = levelCase
    const terms = { catalogId: 'test/model', provider: 'test', model, baseUrl: null, protocols: [protocol], wireLevel }
    const more = {
      outputTokens: SIZES.outputTokens,
      prices: PRICES,
      helpers: [...harness.auxiliaryModels],
      recordBodies: false,
    }
    const grant = await openGrant(ledger, {
      workspaceId: newId(),
      grantee: newId(),
      credentialId: newId(),
      budgetMicros,
      callsMax: 1000,
      terms: { ...terms, ...more },
      expiresAt: new Date(Date.now() + 3_600_000),
    })
    const port = openSandboxPort({ gatewayUrl, tunnelSecret: grant.tunnelSecret })
    const traits = { model, provider: 'test', protocols: [protocol], ...SIZES }
    const place: TrialModel = {
      port,
      access: { ...traits, ...levelCase, baseUrl: SANDBOX_GATEWAY_URL, token: grant.token },
    }
    return { place, totals: () => closeGrant(ledger, grant.id) }
  }

  return { provider, open, [Symbol.asyncDispose]: () => scripted[Symbol.asyncDispose]() }
}

export type ScriptedGateway = Awaited<ReturnType<typeof openScriptedGateway>>

/** Folder of installed bundles, cached between runs. */
export const bundlesFolder = async (): Promise<string> => join(await cacheFolder(), 'harnesses')

/** Links the cached Node bundle, which is large, into a data folder. Workers then fetch only uploaded programs. */
export async function provideNode(dataFolder: string): Promise<void> {
  const { parts } = uploadedBundle({ digest: '', node: true, probe: [] })
  const onlyNode = { parts: parts.filter(({ id }) => id === 'node'), probe: [] }
  const signal = AbortSignal.timeout(300_000)
  const installed = await install(onlyNode, { folder: await bundlesFolder(), signal, onProgress: () => {} })
  await mkdir(join(dataFolder, 'harnesses'), { recursive: true })
  for (const { source } of installed) await symlink(source, join(dataFolder, 'harnesses', basename(source)))
}
