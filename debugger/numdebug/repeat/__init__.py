"""Does a program that fixes a seed give the same numbers in every process, and which line of its source is to blame if not?"""
