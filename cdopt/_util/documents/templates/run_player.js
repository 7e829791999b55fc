// The slider over the frames of a run, for pages whose `show` draws the chosen frame.
const el = (id) => document.getElementById(id);
const clean = (x) => String(Number(x.toPrecision(4)));
let busy = false;  // whether `show` still draws
let timer = null;
function play(on) {
  clearInterval(timer);
  timer = null;
  el('play').textContent = on ? '❚❚' : '▶';
  el('play').setAttribute('aria-label', on ? 'pause' : 'play');
  if (!on) return;
  const slider = el('frame');
  if (Number(slider.value) === CDOPT.frames.length - 1) slider.value = 0;
  const stride = Math.max(1, Math.round(CDOPT.frames.length / MOST_SHOWN));
  timer = setInterval(() => {
    if (busy) return;
    slider.value = Number(slider.value) + stride;
    show();
    if (Number(slider.value) === CDOPT.frames.length - 1) play(false);
  }, PAUSE);
}

el('play').onclick = () => play(timer === null);
el('frame').oninput = () => { play(false); show(); };
