// The page of two profiles beside each other.

const data = JSON.parse(document.getElementById("data").textContent);
for (const chart of data.charts) xy(document.getElementById("curves"), chart);
