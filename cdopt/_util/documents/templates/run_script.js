const CDOPT = {{ content|tojson }};
const [PAUSE, MOST_SHOWN] = [150, Infinity];
{{ source("run_player.js", "run.js") }}
