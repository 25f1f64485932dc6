import { conformance } from './testing/conformance.ts'
import { createDockerSubject } from './testing/docker-subject.ts'

conformance('docker as root', () => createDockerSubject())
