import { conformance } from '../../test/support/sandboxes/conformance.ts'
import { createDockerSubject } from '../../test/support/sandboxes/docker-subject.ts'

conformance('docker as root', () => createDockerSubject())
