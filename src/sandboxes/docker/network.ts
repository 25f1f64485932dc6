import { randomInt } from 'node:crypto'
import { LABEL } from '../kernel/ownership.ts'
import { type SandboxNetwork, SandboxUnavailable } from '../sandbox.ts'
import { EngineRefusal, ignoring } from './client.ts'
import { type DockerEngine, labelsOf, logStep, nameOf } from './engine.ts'

/** Size of a subnet: 61 addresses. Subnets cannot collide with networks of this machine, where they have no address. */
const SUBNET_BITS = 26
const SUBNETS = 2 ** (SUBNET_BITS - 10)
const FIRST_ADDRESS = (10 * 256 + 64) * 65536
const TRIES_MAX = 20
const DAY_MS = 24 * 3_600_000

/**
 * Creates an internal network. Docker's `internal` alone still reaches services that listen on all addresses of this
 * machine, through the bridge, so the bridge gets no address.
 */
export async function openNetwork(engine: DockerEngine, id: string): Promise<SandboxNetwork> {
  await createNetwork(engine, id)
  logStep(engine, id, 'group')
  let removal: Promise<void> | undefined
  return {
    id,
    remove: () => {
      removal ??= removeNetwork(engine, id)
      return removal
    },
  }
}

async function createNetwork(engine: DockerEngine, id: string): Promise<void> {
  const Name = nameOf(engine, id)
  for (let tries = 1; ; tries += 1) {
    const body = { Name, CheckDuplicate: true, ...networkSettings(engine, id) }
    const refusal = await engine.docker.call('POST', '/networks/create', { body }).then(() => undefined, requireRefusal)
    if (refusal === undefined) return
    if (refusal.status === 409) throw new Error(`Sandbox network ${id} already exists.`)
    if (!/overlap/i.test(refusal.message) || tries === TRIES_MAX) {
      throw new SandboxUnavailable(`Sandbox network ${id} could not be created: ${refusal.message}`)
    }
  }
}

function requireRefusal(error: unknown): EngineRefusal {
  if (error instanceof EngineRefusal) return error
  throw error
}

const networkSettings = (engine: DockerEngine, id: string) => ({
  Driver: 'bridge',
  Internal: true,
  EnableIPv6: false,
  IPAM: { Config: [{ Subnet: chooseSubnet() }] },
  Options: {
    'com.docker.network.bridge.inhibit_ipv4': 'true',
    'com.docker.network.bridge.enable_ip_masquerade': 'false',
    'com.docker.network.bridge.enable_icc': 'true',
  },
  Labels: labelsOf(engine, 'group', { [LABEL.group]: id, [LABEL.deadline]: String(Date.now() + DAY_MS) }),
})

function chooseSubnet(): string {
  const address = FIRST_ADDRESS + randomInt(SUBNETS) * 2 ** (32 - SUBNET_BITS)
  const bytes = [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256)
  return `${bytes.join('.')}/${SUBNET_BITS}`
}

type VolumeList = { Volumes: { Name: string }[] | null }

/** Removes a sandbox network and its volumes. */
export async function removeNetwork(engine: DockerEngine, id: string): Promise<void> {
  const { docker, installation } = engine
  const label = [`${LABEL.installation}=${installation}`, `${LABEL.group}=${id}`]
  await docker.call('DELETE', `/networks/${nameOf(engine, id)}`).catch(ignoring(404))
  const query = { filters: JSON.stringify({ label }) }
  const { Volumes } = await docker.call<VolumeList>('GET', '/volumes', { query })
  for (const { Name } of Volumes ?? []) await docker.call('DELETE', `/volumes/${Name}`).catch(ignoring(404))
}
