// A click on the head of a column sorts a table by it, each group by itself; a second click turns it.
document.querySelectorAll('thead').forEach((head) => {
  const body = head.parentElement.tBodies[0];
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const plain = text.replace(/[,\s%]/g, '').replace(/−/g, '-');
    return { text, number: parseFloat(plain) };
  };
  const compare = (a, b) => (Number.isNaN(a.number) || Number.isNaN(b.number)
    ? Number.isNaN(a.number) - Number.isNaN(b.number) || a.text.localeCompare(b.text)
    : a.number - b.number);
  [...head.rows[0].cells].forEach((cell, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.title = 'sort by this column';
    button.append(...cell.childNodes);
    cell.append(button);
    button.addEventListener('click', () => {
      const turn = cell.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
      [...head.rows[0].cells].forEach((other) => other.removeAttribute('aria-sort'));
      cell.setAttribute('aria-sort', turn > 0 ? 'ascending' : 'descending');
      const groups = [[]];
      [...body.rows].forEach((row) => {
        if (row.className === 'group') groups.push([row]);
        else groups[groups.length - 1].push(row);
      });
      groups.forEach((rows) => {
        const first = rows.length && rows[0].className === 'group' ? rows.slice(0, 1) : [];
        const others = rows.slice(first.length);
        const sorted = others.sort((a, b) => turn * compare(value(a, column), value(b, column)));
        body.append(...first, ...sorted);
      });
    });
  });
});
