import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto'
import { SignatureV4 } from '@smithy/signature-v4'

/** Access keys of an AWS account. Temporary keys have a session token. */
export type AwsKeys = {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string | undefined
  region: string
}

type AwsRequest = { url: string; method: string; contentType: string; body: Uint8Array }

/** Returns the headers that authenticate a request (Signature Version 4). They are valid for five minutes. */
export async function signAwsRequest(
  { region, accessKeyId, secretAccessKey, sessionToken }: AwsKeys,
  service: string,
  { url, method, contentType, body }: AwsRequest,
): Promise<Record<string, string>> {
  const { protocol, hostname, host, pathname, searchParams } = new URL(url)
  const credentials = { accessKeyId, secretAccessKey, ...(sessionToken ? { sessionToken } : {}) }
  const signer = new SignatureV4({ credentials, region, service, sha256: NodeSha256 })
  const { headers } = await signer.sign({
    method,
    protocol,
    hostname,
    path: pathname,
    query: Object.fromEntries(searchParams),
    headers: { host, 'content-type': contentType },
    body,
  })
  const { host: _setByClient, ...others } = headers
  return others
}

/** Implements the hash interface of the signer with Node's native hash, because bodies can be large. */
class NodeSha256 {
  private readonly secret: HashInput | undefined
  private hash: Hash | Hmac

  constructor(secret?: HashInput) {
    this.secret = secret
    this.hash = this.start()
  }

  update(data: HashInput): void {
    this.hash.update(toBytes(data))
  }

  async digest(): Promise<Uint8Array> {
    return this.hash.digest()
  }

  reset(): void {
    this.hash = this.start()
  }

  private start(): Hash | Hmac {
    return this.secret === undefined ? createHash('sha256') : createHmac('sha256', toBytes(this.secret))
  }
}

type HashInput = string | ArrayBuffer | ArrayBufferView

function toBytes(data: HashInput): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data)
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data)
}
