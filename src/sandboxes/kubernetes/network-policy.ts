import { randomUUID } from 'node:crypto'
import { LABEL } from '../kernel/ownership.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { ignoringStatus } from './client.ts'
import { type Cluster, HELPER, podName } from './cluster.ts'
import { runExec } from './exec-stream.ts'
import { LOCKED_DOWN, NO_NETWORK_LABEL, POD_ISOLATION } from './pod.ts'
import { type Pod, removePod, startPod } from './pods.ts'

const POLICY = 'assay-sandboxes'
const PROBE_PORT = 18080
const CONNECT_TIMEOUT_MS = 3000
const PROBE_TIMEOUT_MS = 60_000

export const policiesPath = ({ namespace }: Cluster): string =>
  `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`

/** Creates the policy that denies all traffic of sandboxes, if it is missing. */
async function createPolicy(cluster: Cluster): Promise<void> {
  const spec = { podSelector: { matchLabels: NO_NETWORK_LABEL }, policyTypes: ['Ingress', 'Egress'] }
  const body = { apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name: POLICY }, spec }
  await cluster.kubernetes.call('POST', policiesPath(cluster), { body }).catch(ignoringStatus(409))
}

/**
 * Tests which targets a sandbox reaches as soon as its pod starts. Throws SandboxUnavailable if the settings do not accept
 * one of them. A test is needed because a cluster accepts policies that no network plugin enforces.
 */
export async function requireDeniedNetwork(cluster: Cluster): Promise<void> {
  await createPolicy(cluster)
  const reached = await listReachable(cluster)
  const { acceptReachable } = cluster.settings
  const unexpected = reached.filter((name) => !acceptReachable.includes(name))
  if (unexpected.length === 0) return
  throw new SandboxUnavailable(
    `Sandboxes of this cluster reach ${unexpected.join(', ')} although the NetworkPolicy ${POLICY} denies it. Install a network plugin that enforces policies, or accept it in the Kubernetes settings with acceptReachable: [${unexpected.join(', ')}].`,
  )
}

/** Program of the pod that listens on a port, and script that prints the name server of the cluster. */
const LISTEN_PROGRAM = `require('node:net').createServer((socket) => socket.end()).listen(${PROBE_PORT})`
const READ_NAME_SERVER_SCRIPT = `sed -n 's/^nameserver //p' /etc/resolv.conf | head -n 1`

/** Program that connects to all targets at the same time and writes the names of those that answered to a file. */
const CONNECT_PROGRAM = `const net = require('node:net')
const reach = ([name, host, port]) => new Promise((done) => {
  const socket = net.connect({ host, port: Number(port) }, () => { done([name]); socket.destroy() })
  socket.on('error', () => done([])).setTimeout(${CONNECT_TIMEOUT_MS}, () => { done([]); socket.destroy() })
})
const targets = process.argv.slice(1).map((text) => text.split(' '))
const server = process.env.KUBERNETES_SERVICE_HOST
if (server) targets.push(['api-server', server, process.env.KUBERNETES_SERVICE_PORT])
Promise.all(targets.map(reach)).then((found) => {
  require('node:fs').writeFileSync('/tmp/draft', JSON.stringify(found.flat()))
  require('node:fs').renameSync('/tmp/draft', '/tmp/reached')
  setInterval(() => {}, 1000)
})`
const READ_REACHED_SCRIPT = 'until [ -e /tmp/reached ]; do sleep 0.1; done; cat /tmp/reached'

async function listReachable(cluster: Cluster): Promise<string[]> {
  const names = [podName(cluster, `open-${randomUUID()}`), podName(cluster, `denied-${randomUUID()}`)] as const
  const [openName, deniedName] = names
  try {
    const open = await startPod(cluster, openName, buildProbe(cluster, openName, ['node', '-e', LISTEN_PROGRAM], {}))
    const nameServer = await runInProbe(cluster, openName, READ_NAME_SERVER_SCRIPT)
    const command = ['node', '-e', CONNECT_PROGRAM, ...toTargets(open, nameServer)]
    await startPod(cluster, deniedName, buildProbe(cluster, deniedName, command, NO_NETWORK_LABEL))
    const reached: string[] = JSON.parse(await runInProbe(cluster, deniedName, READ_REACHED_SCRIPT))
    return reached.sort()
  } finally {
    await Promise.all(names.map((name) => removePod(cluster, name)))
  }
}

/** Lists the targets that a sandbox must not reach, each as name, address and port. */
const toTargets = ({ status }: Pod, nameServer: string): string[] => [
  `pod ${status.podIP} ${PROBE_PORT}`,
  `kubelet ${status.hostIP} 10250`,
  ...(nameServer === '' ? [] : [`dns ${nameServer} 53`]),
  'internet 1.1.1.1 443',
  'metadata 169.254.169.254 80',
]

function buildProbe(cluster: Cluster, name: string, command: string[], labels: Record<string, string>) {
  const { settings, installation, owner } = cluster
  // A probe has the name server of the cluster, in order to report its address.
  const { dnsPolicy: _policy, dnsConfig: _config, ...isolated } = POD_ISOLATION
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      labels: { [LABEL.installation]: installation, [LABEL.role]: 'probe', ...labels },
      annotations: { [LABEL.owner]: owner, [LABEL.deadline]: String(Date.now() + PROBE_TIMEOUT_MS) },
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
          securityContext: LOCKED_DOWN,
          resources: { requests: { cpu: '10m', memory: '128Mi' }, limits: { cpu: '500m', memory: '128Mi' } },
        },
      ],
    },
  }
}

async function runInProbe({ kubernetes, namespace }: Cluster, pod: string, script: string): Promise<string> {
  const target = { namespace, pod, container: HELPER }
  const { output } = await runExec(kubernetes, target, ['sh', '-c', script], { timeoutMs: PROBE_TIMEOUT_MS })
  return output.toString().trim()
}
