import { randomUUID } from 'node:crypto'
import { LABEL } from '../kernel/ownership.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { ignoringStatus } from './client.ts'
import { type Cluster, HELPER, podName } from './cluster.ts'
import { runExec } from './exec-stream.ts'
import { DENIED, ISOLATED, LOCKED } from './pod.ts'
import { type Pod, removePod, startPod } from './pods.ts'

const POLICY = 'assay-sandboxes'
const PORT = 18080
const TRY_MS = 3000
const PROBE_MS = 60_000

/** Creates the policy that denies all traffic of sandboxes, if it is missing. */
async function createPolicy({ kubernetes, namespace }: Cluster): Promise<void> {
  const path = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`
  const spec = { podSelector: { matchLabels: DENIED }, policyTypes: ['Ingress', 'Egress'] }
  const body = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name: POLICY }, spec }
  await kubernetes.call('POST', path, { body }).catch(ignoringStatus(409))
}

/**
 * Tries what a sandbox reaches from the first moment of its pod. Throws SandboxUnavailable if the policy does not hold
 * and the settings do not accept it: a cluster accepts policies also when no network plugin enforces them.
 */
export async function requireDeniedNetwork(cluster: Cluster): Promise<string[]> {
  await createPolicy(cluster)
  const reached = await listReachable(cluster)
  const { acceptReachable } = cluster.settings
  const unexpected = reached.filter((name) => !acceptReachable.includes(name))
  if (unexpected.length === 0) return reached
  throw new SandboxUnavailable(
    `Sandboxes of this cluster reach ${unexpected.join(', ')} although the NetworkPolicy ${POLICY} denies it. Install a network plugin that enforces policies, or accept it in the Kubernetes settings with acceptReachable: [${unexpected.join(', ')}].`,
  )
}

/** Listens on a port, and writes the name server of the cluster to its output. */
const LISTEN = `require('node:net').createServer((socket) => socket.end()).listen(${PORT})`
const READ_NAME_SERVER = `sed -n 's/^nameserver //p' /etc/resolv.conf | head -n 1`

/** Connects to each target at the same time and writes the names of those that answered. */
const TRY = `const net = require('node:net')
const reach = ([name, host, port]) => new Promise((done) => {
  const socket = net.connect({ host, port: Number(port) }, () => { done([name]); socket.destroy() })
  socket.on('error', () => done([])).setTimeout(${TRY_MS}, () => { done([]); socket.destroy() })
})
const targets = process.argv.slice(1).map((text) => text.split(' '))
const server = process.env.KUBERNETES_SERVICE_HOST
if (server) targets.push(['api-server', server, process.env.KUBERNETES_SERVICE_PORT])
Promise.all(targets.map(reach)).then((found) => {
  require('node:fs').writeFileSync('/tmp/draft', JSON.stringify(found.flat()))
  require('node:fs').renameSync('/tmp/draft', '/tmp/reached')
  setInterval(() => {}, 1000)
})`
const READ_REACHED = 'until [ -e /tmp/reached ]; do sleep 0.1; done; cat /tmp/reached'

async function listReachable(cluster: Cluster): Promise<string[]> {
  const names = [podName(cluster, `open-${randomUUID()}`), podName(cluster, `denied-${randomUUID()}`)] as const
  const [openName, deniedName] = names
  try {
    const open = await startPod(cluster, openName, buildProbe(cluster, openName, ['node', '-e', LISTEN], {}))
    const nameServer = await readFrom(cluster, openName, READ_NAME_SERVER)
    const command = ['node', '-e', TRY, ...toTargets(open, nameServer)]
    await startPod(cluster, deniedName, buildProbe(cluster, deniedName, command, DENIED))
    const reached: string[] = JSON.parse(await readFrom(cluster, deniedName, READ_REACHED))
    return reached.sort()
  } finally {
    await Promise.all(names.map((name) => removePod(cluster, name)))
  }
}

/** Returns what a sandbox must not reach, as name, address and port. */
const toTargets = ({ status }: Pod, nameServer: string): string[] => [
  `pod ${status.podIP} ${PORT}`,
  `kubelet ${status.hostIP} 10250`,
  ...(nameServer === '' ? [] : [`dns ${nameServer} 53`]),
  'internet 1.1.1.1 443',
  'metadata 169.254.169.254 80',
]

function buildProbe(cluster: Cluster, name: string, command: string[], labels: Record<string, string>) {
  const { settings, installation, owner } = cluster
  const { dnsPolicy: _none, dnsConfig: _unused, ...isolated } = ISOLATED
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      labels: { [LABEL.installation]: installation, [LABEL.role]: 'probe', ...labels },
      annotations: { [LABEL.owner]: owner, [LABEL.deadline]: String(Date.now() + PROBE_MS) },
    },
    spec: {
      ...isolated,
      nodeSelector: settings.nodeSelector,
      tolerations: settings.tolerations,
      runtimeClassName: settings.runtimeClass,
      imagePullSecrets: settings.pullSecrets.map((secret) => ({ name: secret })),
      containers: [
        {
          name: HELPER,
          image: settings.helperImage,
          imagePullPolicy: 'IfNotPresent',
          command,
          securityContext: LOCKED,
          resources: { requests: { cpu: '10m', memory: '128Mi' }, limits: { cpu: '500m', memory: '128Mi' } },
        },
      ],
    },
  }
}

async function readFrom({ kubernetes, namespace }: Cluster, pod: string, script: string): Promise<string> {
  const target = { namespace, pod, container: HELPER }
  const { output } = await runExec(kubernetes, target, ['sh', '-c', script], { timeoutMs: PROBE_MS })
  return output.toString().trim()
}
