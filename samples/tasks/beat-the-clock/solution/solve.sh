#!/bin/bash
cat > /app/slow.sh <<'SCRIPT'
#!/bin/bash
echo $(($1 * ($1 + 1) / 2))
SCRIPT
