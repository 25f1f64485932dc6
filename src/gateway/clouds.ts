import type { Cloud } from '../credentials/schema.ts'
import { azure } from './clouds/azure.ts'
import { bedrock } from './clouds/bedrock.ts'
import type { CloudTransport } from './clouds/cloud-transport.ts'
import { vertex } from './clouds/vertex.ts'

/** All clouds that the gateway supports. A new one is a file and a line here. */
export const cloudTransports: Record<Cloud, CloudTransport> = { azure, bedrock, vertex }
