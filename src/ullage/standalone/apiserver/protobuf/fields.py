from pathlib import Path
OPTIONS=("CreateOptions","DeleteOptions","PatchOptions","UpdateOptions")
TABLE=Path(__file__).with_name("fields.txt")
