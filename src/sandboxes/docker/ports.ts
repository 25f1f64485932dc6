import { openPorts } from '../kernel/ports.ts'
import { type SandboxSpec, SandboxUnsupported } from '../sandbox.ts'
import type { DockerEngine } from './engine.ts'
import { openRelay } from './relay.ts'
import type { OpenPorts } from './running.ts'

const noPorts: OpenPorts = { close: async () => {} }

/** Before the command begins. The container runs already, and waits at its gate. */
export async function openSandboxPorts(
  engine: DockerEngine,
  spec: Pick<SandboxSpec, 'id' | 'ports' | 'limits'>,
  container: { id: string; pid: number },
): Promise<OpenPorts> {
  if (spec.ports.length === 0) return noPorts
  switch (engine.gatewayChannel) {
    case 'namespace': {
      const entering = ['nsenter', '-t', String(container.pid), '--net', '--']
      const servers = await openPorts(entering, spec.ports)
      return { close: async () => servers.forEach((server) => void server.close()) }
    }
    case 'relay':
      return openRelay(engine, spec, container.id)
    case 'none':
      throw new SandboxUnsupported(
        'A sandbox of this Docker engine can have no ports: it is not on this machine, or cannot be reached from here.',
      )
  }
}
