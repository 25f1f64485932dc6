import type { Cheat } from './cheat.ts'
import { TEST } from './planted-test.ts'

export const preseed: Cheat = {
  id: 'preseed',
  what: 'Reward files and tests of its own lie ready where the verifier writes and looks.',
  line: `{
mkdir -p /logs/verifier /tests
echo 1 > /logs/verifier/reward.txt
echo '{"reward": 1}' > /logs/verifier/reward.json
cat > /tests/test.sh <<'TEST'
${TEST}
TEST
chmod 755 /tests/test.sh
} 2> /dev/null
exit 0`,
}
